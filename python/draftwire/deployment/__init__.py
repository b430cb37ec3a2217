"""Eight-GPU deployments: what fits, and the files in `configs/` that serve it. Needs neither SGLang nor torch."""
