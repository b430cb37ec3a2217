"""The captured states that reach the draft are the ones asked for.

Why: up to 0.5.16 a state that was not captured is missing in silence until a shape fails far away.
Upstream: 0.5.17 counts the states while they are packed; nothing compares them with the draft's config.
Drop when: upstream checks count and width of what it hands to the draft in every forward mode.
"""

from __future__ import annotations

from draftwire.refusal import refuse


class LogitsProcessor:
    def forward(original, self, input_ids, hidden_states, *args, **kwargs):
        """Upstream's forward; the first time in each forward mode its states are [tokens, K x hidden].

        aux_hidden_states: one packed [tokens, K * hidden] tensor, or a list of K [tokens, hidden].
        """
        output = original(self, input_ids, hidden_states, *args, **kwargs)
        wiring = getattr(self, "aux_wiring", None)
        if wiring is not None:
            metadata = args[1] if len(args) > 1 else kwargs["logits_metadata"]
            mode = metadata.forward_mode
            seen = self.__dict__.setdefault("aux_modes_seen", set())
            if mode not in seen and not mode.is_idle() and hidden_states.shape[0]:
                states = args[2] if len(args) > 2 else kwargs.get("aux_hidden_states")
                require_states(states, wiring, self.aux_hidden_size, hidden_states.shape[0], mode.name)
                require_width(output.hidden_states, wiring, self.aux_hidden_size, mode.name)
                seen.add(mode)
        return output


def require_states(states, wiring, hidden_size: int, tokens: int, mode: str) -> None:
    """Refuse captured states other than `tokens` rows of K states of `hidden_size`."""
    if states is None:
        found = "none"
    elif isinstance(states, (list, tuple)):
        found = " + ".join(str(list(state.shape)) for state in states) or "none"
        if [list(state.shape) for state in states] == [[tokens, hidden_size]] * len(wiring.boundaries):
            return
    else:
        found = str(list(states.shape))
        if list(states.shape) == [tokens, len(wiring.boundaries) * hidden_size]:
            return
    refuse(
        f"expected {tokens} tokens of {len(wiring.boundaries)} x {hidden_size} captured states, found {found} in the "
        f"first {mode} forward of the target; {wiring} was not captured, report this release"
    )


def require_width(states, wiring, hidden_size: int, mode: str) -> None:
    """Refuse states handed to the draft that are not K * hidden_size wide; None where none were asked for."""
    if states is not None and states.shape[-1] != len(wiring.boundaries) * hidden_size:
        refuse(
            f"expected states of width {len(wiring.boundaries)} x {hidden_size} for the draft, found "
            f"{list(states.shape)} after the first {mode} forward of the target; {wiring} was not handed on"
        )
