"""What the ASC-WFBP paper (Shi, Chu and Li 2021) says: its network, and Tables III, IV and V of its Section VI.

What computing takes on the cluster is in Figure 6, which has no numbers; but the text beside it says that ASC-WFBP leaves 22% to
74% less communication than MG-WFBP, and with Table IV that is an equation for the time of computing. Only BERT can be the 22%
(the others would compute faster than on one GPU): it computes 1.42 times as long as on one GPU. If the factor is much the same
for all, only DenseNet-201 can be the 74%: its factor is 1.34. The others' would be 1.68 and 1.74, and with these DenseNet-201
would compute for longer than its whole step. With 1.34 for all four the range is 21% to 75%, with 1, as on one GPU, 18% to 43%.
Of ResNet-152 and Inception-v4 nothing more is said.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.overlap import CommunicationModel

WORKERS = 32
A, B, GAMMA = 1.4e-3, 1.7e-9, 1.5
LINK_RATE = 9.43e9
"""Bits a second, by iperf3, as in Equation 43."""
NETWORK = CommunicationModel(A, B, (1.0, GAMMA))
WIDE_NETWORK = CommunicationModel(A, B, (1.0, *(GAMMA / 2 * m for m in range(2, 9))))
"""Up to eight at once, of which the paper says nothing: no more gets through than with two."""


@dataclass(frozen=True, slots=True)
class Paper:
    """What Tables III, IV and V say of one model."""

    millions: int
    tensors: int
    wfbp: float
    mg_wfbp: float
    asc_wfbp: float
    over_wfbp: float
    over_mg_wfbp: float
    most_speedup: float
    speedup: float
    saved: float | None = None
    """of the communication that MG-WFBP leaves, what ASC-WFBP leaves less, by the text beside Figure 6"""

    @property
    def least_communication(self) -> float:
        """Equation 43: twice the gradients over the link."""
        return 2 * self.millions * 1e6 * 32 / LINK_RATE

    @property
    def compute(self) -> float:
        """On one GPU."""
        return self.speedup * self.asc_wfbp / WORKERS

    def saving(self, slower: float) -> float:
        """What ASC-WFBP saves of the communication that MG-WFBP leaves, if computing takes so many times as long."""
        return (self.mg_wfbp - self.asc_wfbp) / (self.mg_wfbp - slower * self.compute)

    @property
    def slower(self) -> float:
        """How much longer computing takes on the cluster, where the paper says so."""
        if self.saved is None:
            return 1.0
        return (self.mg_wfbp - (self.mg_wfbp - self.asc_wfbp) / self.saved) / self.compute


PAPER = {
    "resnet-152": Paper(60, 467, 0.956, 0.710, 0.524, 1.82, 1.35, 17.5, 16.7),
    "densenet-201": Paper(20, 604, 0.778, 0.375, 0.314, 2.48, 1.20, 32.0, 22.3, 0.74),
    "inception-v4": Paper(42, 449, 0.719, 0.510, 0.377, 1.91, 1.35, 17.2, 16.1),
    "bert-base": Paper(110, 206, 1.010, 1.062, 0.924, 1.09, 1.15, 11.5, 10.6, 0.22),
}
GIVEN = {"resnet-152": (0.091, 0.182)}
