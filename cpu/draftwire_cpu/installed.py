"""Whether a build of SGLang's own kernel distribution is installed beside this one."""

from importlib.metadata import PackageNotFoundError, version

UPSTREAM_BUILDS = ("sglang-kernel", "sgl-kernel")


def refuse_beside_upstream_build() -> None:
    """Refuse to answer to `sgl_kernel` where the distribution of that import is installed.

    Raises ImportError, in one line, when a name of UPSTREAM_BUILDS has metadata on the import path.
    """
    for name in UPSTREAM_BUILDS:
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        raise ImportError(
            f"draftwire-cpu provides sgl_kernel only where nothing else does, found {name} {found} installed; "
            f"run `pip uninstall draftwire-cpu` to use that, or `pip uninstall {name}` to serve without a GPU"
        )
