"""The SGLang plugin: keep the `intel_amx` attention backend on a machine without AMX, and wait for no GPU.

SGLang replaces `intel_amx` by `torch_native` where the machine has no AMX, and `torch_native` can neither verify
EAGLE drafts nor prefill MLA. The operators registered here need no AMX, so the platform fact `has_amx` is overridden.
Layers do not read that fact: they ask for packed-weight operators, which this package leaves undefined, and so they
stay on their PyTorch paths.
"""

import os


def activate() -> None:
    """Entry point of group `sglang.srt.plugins`; SGLang calls it once in every process.

    Returns at once, importing nothing, unless SGLANG_USE_CPU_ENGINE is 1, and does nothing where a CUDA device is
    visible. Raises SystemExit with one line when `sgl_kernel` is not this distribution's or the fact cannot be
    overridden: any other exception of a plugin is logged by SGLang, which then serves on without it.
    """
    if os.environ.get("SGLANG_USE_CPU_ENGINE", "0") != "1":
        return
    import torch

    if torch.cuda.is_available():
        return
    try:
        import sgl_kernel
    except Exception as error:
        raise SystemExit(
            _line(f"a working sgl_kernel, found {error}", "mend what it names, or unset SGLANG_USE_CPU_ENGINE")
        ) from error
    if getattr(sgl_kernel, "PROVIDED_BY", None) != "draftwire-cpu":
        found = getattr(sgl_kernel, "__file__", sgl_kernel)
        raise SystemExit(_line(f"its own sgl_kernel, found {found}", "remove that or uninstall draftwire-cpu"))
    try:
        from sglang.srt.runtime_context import override_platform

        override_platform(has_amx=True).install()
    except Exception as error:
        expected = "sglang.srt.runtime_context.override_platform to accept has_amx"
        raise SystemExit(_line(f"{expected}, found {error!r}", "use SGLang 0.5.20 to 0.5.23")) from error
    # DeepSeek's built-in head, given the target's embedding, waits for a GPU whether or not there is one.
    torch.cuda.synchronize = lambda device=None: None


def _line(expected_and_found: str, remedy: str) -> str:
    """One line, whatever line breaks an upstream message holds."""
    return " ".join(f"draftwire-cpu: expected {expected_and_found}; {remedy}".split())
