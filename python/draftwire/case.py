"""One case for the doctor: a draft, the target, the launch flags, and the SGLang release that will serve them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from draftwire.draft import MLA_CLASS, Draft
from draftwire.flags import Flags
from draftwire.reading import Reading, read_served
from draftwire.release import has
from draftwire.switches import eagle_config, is_on, layer_config, required, wants_qk_norm
from draftwire.target import Target
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY

DELIVERIES = ("stock", "overlay", "patch")


class Case:
    """What the checks look at. `target` and `flags` are None where they were not named.

    `delivery`: stock, overlay or patch, whichever of draftwire is at work in the server. `named`: what --draft and
    --target say, empty where the launch flags named it.
    """

    def __init__(self, draft: Draft, target: Target | None, flags: Flags | None, release: str, delivery: str,
                 environment: Mapping[str, str], named: tuple[str, str] = ("", "")):  # fmt: skip
        self.draft, self.target, self.flags, self.named = draft, target, flags, named
        self.release, self.delivery, self.environment = release, delivery, environment

    @cached_property
    def layer(self) -> Mapping[str, Any]:
        """The table that describes the draft's layers: nested in a speculators config, the config elsewhere."""
        return layer_config(self.draft)

    @cached_property
    def eagle_config(self) -> Mapping[str, Any]:
        """The nested table, empty where there is none."""
        return eagle_config(self.draft.config)

    @property
    def is_nested(self) -> bool:
        """Whether the config has speculators' form, which no release of SGLang reads."""
        return self.layer is not self.draft.config

    @property
    def is_mla(self) -> bool:
        return self.draft.layout == "mla" or MLA_CLASS in self.architectures

    @cached_property
    def architectures(self) -> list[str]:
        """The classes that the draft's config names."""
        names = self.draft.config.get("architectures")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    @property
    def is_wired_by_us(self) -> bool:
        """Whether draftwire resolves the ids: its overlay or patch, and a target of DeepSeek's family."""
        return self.delivery != "stock" and self.target is not None and self.target.architecture in DEEPSEEK_FAMILY

    @property
    def server(self) -> str:
        ours = {"stock": "without draftwire", "overlay": "with draftwire's overlay", "patch": "with draftwire's patch"}
        return f"SGLang {self.release} {ours[self.delivery]}"

    @cached_property
    def reading(self) -> Reading:
        """What this server makes of the draft's ids."""
        return read_served(self)

    @property
    def uses_states(self) -> bool:
        """As SGLang takes it: any false value turns the capture off."""
        return bool(self.eagle_config.get("use_aux_hidden_state", True))

    def has(self, feature: str) -> bool:
        return has(self.release, feature)

    def size(self, key: str) -> int | None:
        """A size of the draft's layers, None where it is missing or no positive whole number."""
        value = self.layer.get(key)
        return value if type(value) is int and value > 0 else None

    @property
    def vocab_size(self) -> int | None:
        return self.size("vocab_size")

    @property
    def draft_vocab_size(self) -> int | None:
        """Tokens that the draft's head knows; the target's where the config does not say."""
        value = self.draft.config.get("draft_vocab_size")
        return value if type(value) is int and value > 0 else self.vocab_size

    @property
    def captured_width(self) -> int | None:
        """Values of one captured state: the target's hidden size, as far as it is known."""
        if self.target is not None:
            return self.target.hidden_size
        value = self.draft.config.get("target_hidden_size")
        return value if type(value) is int and value > 0 else self.size("hidden_size")

    @property
    def requires(self) -> list[str]:
        """What the converter wrote that only the overlay serves; see features.KNOWN."""
        return required(self.draft.config)

    def flag(self, name: str) -> bool:
        """A switch of the draft's config, see `switches.is_on`."""
        return is_on(self.draft.config, name)

    @property
    def wants_qk_norm(self) -> bool:
        """See `switches.wants_qk_norm`."""
        return wants_qk_norm(self.draft)

    def tensor(self, name: str):
        """A tensor by the name that SGLang gives it, None where there is none."""
        return self.tensors.get(name)

    @cached_property
    def tensors(self) -> Mapping[str, Any]:
        """The draft's tensors by SGLang's names: `layers.0` for `midlayer`, without `model.`; also of those that no
        release takes under the name that they have in the file, see `places`."""
        from draftwire.tensor_names import rename

        speculators = self.draft.layout == "speculators" and self.is_nested
        return {rename(name, speculators=speculators): tensor for name, tensor in self.draft.tensors.items()}

    @cached_property
    def places(self) -> Mapping[str, str | None]:
        """For each name in the file that under which SGLang's loader takes it, None where it drops it. Of speculators'
        nested form, which no release reads, the names after `draftwire convert`."""
        from draftwire.loading import place
        from draftwire.tensor_names import rename

        if self.is_nested:
            speculators = self.draft.layout == "speculators"
            return {name: rename(name, speculators=speculators) for name in self.draft.tensors}
        return {name: place(name, mla=self.is_mla) for name in self.draft.tensors}
