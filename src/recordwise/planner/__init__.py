"""What a budget buys, before any of it is spent."""

from recordwise.planner.checking import Checked, Finding, check
from recordwise.planner.noise import refuse_noise
from recordwise.planner.outlook import Outlook, look
from recordwise.planner.planning import BudgetPlan, plan
from recordwise.planner.predicting import Expected, Prediction, predict
from recordwise.planner.rough import RoughPlan, rough_plan
from recordwise.planner.searching import recommend_queries

__all__ = [
    "BudgetPlan",
    "Checked",
    "Expected",
    "Finding",
    "Outlook",
    "Prediction",
    "RoughPlan",
    "check",
    "look",
    "plan",
    "predict",
    "recommend_queries",
    "refuse_noise",
    "rough_plan",
]
