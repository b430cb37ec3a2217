"""Run in a process of its own: upstream's benchmark client, imported once and run as often as it is told.

Jobs come as JSON lines on standard input, one answer each goes to the pipe named on the command line. Upstream's
imports take longer than a short measurement, so one process serves a whole benchmark.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import types
import warnings
from typing import Any


def import_client() -> Any:
    """`main` of upstream's client. It imports `datasets` for public data sets only, which no job of ours names."""
    warnings.simplefilter("ignore")
    try:
        import datasets  # noqa: F401
    except ImportError:
        absent = types.ModuleType("datasets")
        absent.load_dataset = None  # type: ignore[attr-defined]
        sys.modules["datasets"] = absent
    try:
        from sglang.benchmark.serving import cli_main
    except ModuleNotFoundError:  # Up to 0.5.14.
        return _run_as_script("sglang.bench_serving")
    return cli_main


def _run_as_script(module: str) -> Any:
    import runpy

    return lambda: runpy.run_module(module, run_name="__main__")


def render(items: list[Any], tokenizer_path: str, out: str) -> list[str]:
    """Texts of prompts, also written as upstream's `custom` data set.

    Raises ValueError where token ids do not come back from their text.
    """
    tokenizer = None
    if not all(isinstance(item, str) for item in items):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tokenizer_path, trust_remote_code=True)
    texts = [_text(tokenizer, item, number) for number, item in enumerate(items, 1)]
    with open(out, "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"conversations": [{"content": text}, {"content": ""}]}) + "\n")
    return texts


def _text(tokenizer: Any, item: Any, number: int) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item[0], dict):
        text = tokenizer.apply_chat_template(item, tokenize=False, add_generation_prompt=True)
        # The server writes it again.
        return text.removeprefix(tokenizer.bos_token or "")
    text = tokenizer.decode(item)
    if tokenizer.encode(text) != item:
        raise ValueError(f"token ids of prompt {number} do not come back from their text; give the text")
    return text


def answer(job: dict[str, Any], client: Any) -> dict[str, Any]:
    """What became of a job, as one JSON object: {"texts": [...]}, {} or {"error": one line}."""
    try:
        if "render" in job:
            return {"texts": render(job["render"], job["tokenizer"], job["out"])}
        sys.argv = ["bench_serving", *job["argv"]]
        client()
    except SystemExit as end:
        return {} if not end.code else {"error": f"it ended with status {end.code}"}
    except Exception as failure:
        traceback.print_exc()
        return {"error": " ".join(f"{type(failure).__name__}: {failure}".split())[:300]}
    return {}


def main(pipe: int) -> None:
    with os.fdopen(pipe, "w") as answers:
        client = import_client()
        for line in sys.stdin:
            said = answer(json.loads(line), client)
            sys.stdout.flush()
            print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
