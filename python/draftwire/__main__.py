"""The `draftwire` command. An interrupt is one line from its first moment on, while modules are imported."""

import signal
import sys


def main() -> None:
    try:
        from draftwire.cli import app

        app(prog_name="draftwire")
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("draftwire: interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
