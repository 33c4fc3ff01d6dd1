"""Groups: which workers average with which, step by step, how fast all agree, and when to divide them anew."""

from weft.groups.consensus import Consensus, check_consensus, check_uplinks, consensus, mixing_matrix, never_meeting
from weft.groups.contention import EVERY, Contention, Meeting, Speeds, Thresholds, speeds_of
from weft.groups.divide_and_shuffle import DivideAndShuffle, divide_and_shuffle
from weft.groups.formulas import Cost, Setting, ds_sync_groups, table_1, table_2
from weft.groups.gossip import Everybody, ExponentialGraph, RandomMatching
from weft.groups.methods import MethodTime, method_times
from weft.groups.parts import InParts, each_round_once, in_parts
from weft.groups.racks import Rack, racks_of, with_slow
from weft.groups.rounds import WHOLE, Group, Part, Pattern, Round
from weft.groups.serving import serving_seconds
from weft.groups.table import pattern_table
from weft.groups.timing import GroupTimes, PatternTime, RoundTime, side_by_side

__all__ = [
    "EVERY",
    "WHOLE",
    "Consensus",
    "Contention",
    "Cost",
    "DivideAndShuffle",
    "Everybody",
    "ExponentialGraph",
    "Group",
    "GroupTimes",
    "InParts",
    "Meeting",
    "MethodTime",
    "Part",
    "Pattern",
    "PatternTime",
    "Rack",
    "RandomMatching",
    "Round",
    "RoundTime",
    "Setting",
    "Speeds",
    "Thresholds",
    "check_consensus",
    "check_uplinks",
    "consensus",
    "divide_and_shuffle",
    "ds_sync_groups",
    "each_round_once",
    "in_parts",
    "method_times",
    "mixing_matrix",
    "never_meeting",
    "pattern_table",
    "racks_of",
    "serving_seconds",
    "side_by_side",
    "speeds_of",
    "table_1",
    "table_2",
    "with_slow",
]
