"""A drawn chart as the small files that are kept of it."""

from __future__ import annotations

import io
import re
from typing import Any


def compact(svg: bytes) -> bytes:
    """Two decimals, fonts that any viewer has, named once, and nothing that draws nothing or is not referred to.

    Styles stay with their elements: not every viewer reads a style sheet.
    """
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg.decode(), flags=re.DOTALL)
    text = re.sub(r'<g id="[\w.]+"/>', "", text)
    text = re.sub(r'<g id="[\w.]+">', "<g>", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text).replace("font-family: 'DejaVu Sans'; ", "")
    text = text.replace("<svg ", """<svg font-family="'DejaVu Sans', Verdana, sans-serif" """, 1)
    return ("\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n").encode()


def with_text(image: Any, digest: str) -> bytes:
    """PNG that names the SVG that it is a picture of."""
    from PIL.PngImagePlugin import PngInfo

    out, info = io.BytesIO(), PngInfo()
    info.add_text("svg-sha256", digest)
    image.save(out, format="PNG", optimize=True, pnginfo=info)
    return out.getvalue()
