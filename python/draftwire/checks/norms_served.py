"""The server runs the norms that the draft was trained with.

What: `norm_before_residual`, `norm_before_fc`, `fc_norm`, `norm_output` and q and k norms against what the release's
draft class runs, and whether the flags lie where it reads them.

Why: `norm_before_residual` is the default of speculators' trainer and known to no release of SGLang without draftwire's
overlay or patch; `norm_before_fc` is read from 0.5.17 on, and never for MLA drafts; `fc_norm` and `norm_output` from
0.5.12 on (MLA: 0.5.13), and only at the top of the config. A flag that is not read is no error: another network is
served.

Example: a speculators draft, flattened by hand, on stock SGLang 0.5.23.

Remedy: `draftwire convert`, and draftwire beside SGLang 0.5.14 or later.

Reports:
- https://github.com/vllm-project/vllm/pull/38111
- https://github.com/ROCm/ATOM/pull/943
- https://github.com/sgl-project/sglang/pull/24663
- https://github.com/vllm-project/vllm/pull/42764
"""

from draftwire.case import Case
from draftwire.features import KNOWN
from draftwire.finding import Finding, error, ok

# Of KNOWN, what the patch serves too.
PATCHED = ("norm_before_residual", "boundary_1")


def check(case: Case) -> list[Finding]:
    findings = []
    for name, problem in _problems(case):
        findings.append(
            error(
                f"{name} is trained, and {problem}.", f"{name} in config.json",
                remedy="Run `draftwire convert` and serve it with draftwire's overlay."
                if not case.is_mla or name == "norm_before_fc"
                else "Train the MLA draft without it, or serve a newer release.",
            )
        )  # fmt: skip
    for name in case.requires:
        if case.delivery == "patch" and name in KNOWN and name not in PATCHED:
            findings.append(
                error(
                    f"draftwire's patch refuses a draft that requires {name}.",
                    f"eagle_config.requires {case.requires}",
                    remedy="Serve with draftwire's overlay, on SGLang 0.5.14 or later.",
                )
            )  # fmt: skip
        if name not in KNOWN:
            findings.append(
                error(
                    f"The converter asked for {name}, which this draftwire does not know.",
                    f"eagle_config.requires {case.requires}", remedy="Install a newer draftwire.",
                )
            )  # fmt: skip
    return findings or [ok("The server runs the draft's norms.")]


def _problems(case: Case) -> list[tuple[str, str]]:
    overlay, out = case.delivery == "overlay", []
    if case.flag("norm_before_residual") and (case.is_mla or case.delivery == "stock"):
        out.append(("norm_before_residual", "no release of SGLang runs it by itself"))
    if case.flag("norm_before_fc") and not overlay and (case.is_mla or not case.has("norm_before_fc")):
        what = "its MLA draft ignores it" if case.is_mla else f"SGLang {case.release} ignores it"
        out.append(("norm_before_fc", what))
    for name in ("fc_norm", "norm_output"):
        if not case.flag(name):
            continue
        if not case.has("mla_norms" if case.is_mla else name):
            out.append((name, f"SGLang {case.release} ignores it"))
        elif not case.draft.config.get(name) and not case.draft.config.get("use_aux_norm"):
            out.append((name, "it is read at the top of the config only, not in eagle_config"))
    if case.wants_qk_norm and not (overlay and "qk_norm" in case.requires):
        out.append(("qk_norm", "SGLang's draft has Llama's attention"))
    return out
