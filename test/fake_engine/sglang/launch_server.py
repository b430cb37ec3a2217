"""A server that answers as SGLang does, with a child as SGLang has; a draft makes it faster.

FAKE_FAULT: die_loading, hang, die_serving, answer_nothing, other_length, loop, other_sampling (of the speculative
server only, but for the first two). FAKE_PIDS: a file that gets the ids of the server and its child; `commands`
beside it gets its launch flags.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAULT = os.environ.get("FAKE_FAULT", "")
config, port = (sys.argv[sys.argv.index(flag) + 1] for flag in ("--config", "--port"))
drafted = "speculative-" in Path(config).read_text()
child = subprocess.Popen(["sleep", "600"])
with open(os.environ["FAKE_PIDS"], "a") as pids:
    pids.write(f"{os.getpid()} {child.pid}\n")
with open(Path(os.environ["FAKE_PIDS"]).parent / "commands", "a") as commands:
    print(*sys.argv[1:], file=commands)
signal.signal(signal.SIGTERM, lambda *_: (child.kill(), child.wait(), os._exit(0)))
if FAULT == "die_loading":
    sys.exit("RuntimeError: no memory for the weights")


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        if FAULT == "hang":
            return self.reply({}, 503)
        info = {"sampling_defaults": "openai" if drafted and FAULT == "other_sampling" else "model"}
        info["internal_states"] = [{"effective_max_running_requests_per_dp": 3 if drafted else 4}]
        self.reply(info if self.path == "/server_info" else {})

    def do_POST(self):
        if self.path != "/generate":
            return self.reply({})
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sampling = asked["sampling_params"]
        tokens = sampling["max_new_tokens"]
        if drafted and FAULT == "die_serving":
            print("RuntimeError: CUDA error", file=sys.stderr, flush=True)
            os._exit(1)
        if asked["text"].endswith("3") and not sampling["ignore_eos"]:
            tokens -= 4  # An answer that ends by itself.
        if drafted and FAULT == "other_length" and not sampling["ignore_eos"]:
            tokens -= tokens // 8
        time.sleep(tokens * (0.001 if drafted else 0.002))
        verifies = tokens // 2
        meta = {"completion_tokens": tokens, "prompt_tokens": len(asked["text"])}
        if drafted:
            meta |= {"spec_verify_ct": verifies, "spec_correct_drafts_histogram": [verifies // 2, 0, 0, verifies // 2]}
        ids = [i % 3 for i in range(tokens)] if FAULT == "loop" else list(range(tokens))
        text = "" if drafted and FAULT == "answer_nothing" else f"{tokens} tokens"
        self.reply({"text": text, "output_ids": ids, "meta_info": meta}, streamed=asked.get("stream"))

    def reply(self, body, status=200, streamed=False):
        data = json.dumps(body).encode()
        if streamed:
            data = b"data: " + data + b"\n\ndata: [DONE]\n\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(port)), Answers).serve_forever()
