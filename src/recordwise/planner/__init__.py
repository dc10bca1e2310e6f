"""What a budget buys, before any of it is spent."""

from recordwise.planner.checking import Checked, Finding, check
from recordwise.planner.outlook import Outlook, look
from recordwise.planner.planning import Expected, Plan, Prediction, plan, predict, recommend_queries
from recordwise.planner.rough import RoughPlan, rough_plan

__all__ = [
    "Checked",
    "Expected",
    "Finding",
    "Outlook",
    "Plan",
    "Prediction",
    "RoughPlan",
    "check",
    "look",
    "plan",
    "predict",
    "recommend_queries",
    "rough_plan",
]
