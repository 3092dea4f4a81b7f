"""ENGINE "lagrangian": one dual per example, cheap exact projections, dual ascent."""

from .projections import Capped, SampledCap, project_cap, project_cap_sampled, project_two

__all__ = ["Capped", "SampledCap", "project_cap", "project_cap_sampled", "project_two"]
