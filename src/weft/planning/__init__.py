"""Planning: the best schedule for a network and a size, with a bound and the reasons."""

from weft.planning.costs import Costs
from weft.planning.plan import Plan, plan, shortlist

__all__ = ["Costs", "Plan", "plan", "shortlist"]
