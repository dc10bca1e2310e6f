"""What a budget buys, before any of it is spent."""

from recordwise.planner.checking import Checked, Finding, check
from recordwise.planner.noise import refuse_noise
from recordwise.planner.outlook import Outlook, look
from recordwise.planner.planning import BudgetPlan, Expected, Prediction, plan, predict, recommend_queries
from recordwise.planner.rough import RoughPlan, rough_plan

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
