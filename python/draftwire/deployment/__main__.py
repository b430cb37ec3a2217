"""Write what is generated in `configs/` of this checkout, and remove what no longer fits."""

from pathlib import Path

from draftwire.deployment.files import contents

if __name__ == "__main__":
    configs = Path(__file__).resolve().parents[3] / "configs"
    files = contents(configs)
    for name, text in files.items():
        (configs / name).write_text(text)
    for path in configs.glob("*.yaml"):
        if path.name not in files:
            path.unlink()
    print(f"{len(files)} files in {configs}")
