"""The claims of Ravi 2020 and Venkatesh 2019. Numbers in the text are the paper's; ours are computed."""

from __future__ import annotations

from ..judging import NOT_HERE, Claim, no_worse, s_mnist_gap

_S_MNIST = "3,000 MNIST digits doubled, 10 epochs (`s_mnist`)"
_NO_COCO = "COCO-Stuff cannot be had here; CamVid and Stanford Background would stand in"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Ravi",
        "Fig. 3, column 1",
        "With the F1 regularizer the S-MNIST classifier is more accurate than without.",
        f"hidden layer, α = 0.01 against 0; {_S_MNIST}",
        "s_mnist",
        s_mnist_gap("hidden", (1e-2, "ravi"), (0.0, "ravi")),
    ),
    Claim(
        "Ravi",
        "Fig. 3, column 2",
        "One projection per epoch is as good as one per step.",
        f"hidden layer, α = 0.01; {_S_MNIST}",
        "s_mnist",
        no_worse(s_mnist_gap("hidden", (1e-2, "ravi"), (1e-2, "ravi-full"))),
    ),
    Claim("Ravi", "Fig. 3, columns 3–4", "Sky segmentation with SegNet: mean IoU 80 % against 77.6 %.", _NO_COCO),
    Claim(
        "Ravi",
        "Fig. 4, 7",
        "COCO-Stuff 164K with DeepLabV3+: mean IoU 0.32 against 0.30.",
        "164 thousand images cannot be had here",
        otherwise=NOT_HERE,
    ),
    Claim(
        "Venkatesh",
        "Fig. 6",
        "F1 regularisation vastly outperforms the baseline on big and small MNIST, one linear layer.",
        f"linear, α = 0.01 against 0; {_S_MNIST}",
        "s_mnist",
        s_mnist_gap("linear", (1e-2, "ravi"), (0.0, "ravi")),
    ),
    Claim("Venkatesh", "Fig. 8", "Sky segmentation: mean IoU rises by 4 %.", _NO_COCO),
    Claim("Venkatesh", "§3.1", "Schedules of the number of inner loops bring no serious improvement.", "–"),
)
