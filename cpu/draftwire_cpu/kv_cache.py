"""The paged KV cache as the attention operators see it."""

from typing import NamedTuple

import torch


class KVCache(NamedTuple):
    """One layer's cache and the table of the requests' slots.

    keys [slots, G, D], values [slots, G, Dv], floating point; with MLA, values is a view of the first Dv columns of
    keys. req_to_token: integer [requests, pool_len].
    """

    keys: torch.Tensor
    values: torch.Tensor
    req_to_token: torch.Tensor

    def values_in_keys(self) -> bool:
        """Whether values is a view of keys (MLA)."""
        return self.keys.data_ptr() == self.values.data_ptr()

    def row_elements(self) -> int:
        """Elements of one token's key and value together, as they are gathered."""
        groups, width = self.keys.shape[1:]
        return groups * (width if self.values_in_keys() else width + self.values.shape[2])

    def store(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write one token's key and value to each of the slots, integer [B], in any shape of as many elements."""
        slots = slots.long()
        rows = keys.reshape(len(slots), *self.keys.shape[1:])
        self.keys.index_copy_(0, slots, rows.to(self.keys.dtype))
        if not self.values_in_keys():
            rows = values.reshape(len(slots), *self.values.shape[1:])
            self.values.index_copy_(0, slots, rows.to(self.values.dtype))

    def slots(
        self, requests: torch.Tensor, lens: torch.Tensor, width: int, padded: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Slots of each request's last `width` tokens, [B * width], and where there is no such token.

        requests, lens: integer [B]. padded says that a request is shorter than `width`: its first slot is repeated at
        the front, and the second value is bool [B, 1, width], True there; otherwise it is None.
        """
        if requests.numel() == 1:
            last = int(lens)
            return self.req_to_token[int(requests), last - width : last], None
        position = (lens - width)[:, None] + torch.arange(width)
        padding = (position < 0)[:, None] if padded else None
        return self.req_to_token[requests[:, None], position.clamp_(min=0)].view(-1), padding

    def gather(self, slots: torch.Tensor, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of the rows at `slots`, integer [batch * M]: keys float32 [batch * G, M, D], values [..., Dv]."""
        keys = by_head(self.keys.index_select(0, slots).view(batch, -1, *self.keys.shape[1:]))
        if self.values_in_keys():
            return keys, keys[..., : self.values.shape[-1]]
        return keys, by_head(self.values.index_select(0, slots).view(batch, -1, *self.values.shape[1:]))


def by_head(rows: torch.Tensor) -> torch.Tensor:
    """[B, M, G, D] of any floating dtype as float32 [B * G, M, D]."""
    batch, length, groups, width = rows.shape
    rows = rows.float()
    if groups == 1:
        return rows.reshape(batch, length, width)
    if batch == 1:
        return rows[0].transpose(0, 1)
    return rows.transpose(1, 2).reshape(batch * groups, length, width)
