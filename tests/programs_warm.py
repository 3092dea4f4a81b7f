"""What the server of `programs` imports once for all of its children: the program, and what it imports on its way."""

import jinja2  # noqa: F401
import lightgbm  # noqa: F401
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import safetensors.torch  # noqa: F401
import sklearn.linear_model
import sklearn.model_selection
import sklearn.svm  # noqa: F401
import torch
import torch._dynamo  # an optimizer's first step would import it
from matplotlib import figure, font_manager  # noqa: F401

import programs  # noqa: F401

torch.set_num_threads(1)
