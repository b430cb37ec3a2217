"""A drawn chart as the small files that are kept of it."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from typing import Any
from xml.etree.ElementTree import Element

SVG = "http://www.w3.org/2000/svg"


def compact(svg: bytes) -> bytes:
    """Two decimals, fonts that any viewer has, what most texts share said once, and nothing that draws nothing: no
    metadata, no groups that only group, no clipping of what lies inside anyway. A line an element.

    Styles stay with their elements: not every viewer reads a style sheet.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    _flatten(root)
    root.attrib |= {"font-family": "'DejaVu Sans', Verdana, sans-serif", "font-size": "9px"}
    text = ElementTree.tostring(root, encoding="unicode")
    for shared in ("font-family: 'DejaVu Sans'; ", "font-size: 9px; ", "text-anchor: start; "):
        text = text.replace(shared, "")
    return (re.sub(r"(\d\.\d\d)\d+", r"\1", text) + "\n").encode()


def _flatten(element: Element) -> None:
    """What only groups gives way to what is in it, what only clips goes; each path in one line."""
    children: list[Element] = []
    for child in element:
        _flatten(child)
        kind = child.tag.removeprefix(f"{{{SVG}}}")
        child.attrib.pop("clip-path", None)
        if kind == "g":
            child.attrib.pop("id", None)
        if "d" in child.attrib:
            child.set("d", " ".join(child.attrib["d"].split()))
        if child.get("transform", "").startswith("rotate(-0 "):
            del child.attrib["transform"]
        if kind == "g" and not child.attrib:
            children += child
        elif kind not in ("metadata", "clipPath") and (kind != "defs" or len(child)):
            children.append(child)
    element[:] = children
    for child in children:
        child.tail = "\n"
    if children:
        element.text = "\n"


def with_text(image: Any, digest: str) -> bytes:
    """PNG that names the SVG that it is a picture of."""
    from PIL.PngImagePlugin import PngInfo

    out, info = io.BytesIO(), PngInfo()
    info.add_text("svg-sha256", digest)
    image.save(out, format="PNG", optimize=True, pnginfo=info)
    return out.getvalue()
