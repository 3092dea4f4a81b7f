"""What the server of `programs` imports once for all of its children."""

import lightgbm  # noqa: F401
import sklearn.model_selection  # noqa: F401
import torch
import torch._dynamo  # an optimizer's first step would import it
from matplotlib import figure, font_manager  # noqa: F401

import programs  # noqa: F401

torch.set_num_threads(1)
