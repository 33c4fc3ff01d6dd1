"""Networks: what they are, how they are built, and the files that describe them."""

from weft.network.builders import BUILDERS, bcube, dgx1, fat_tree, full_mesh, machines, spine_leaf, two_tier
from weft.network.combine import built, built_from_expression, combined
from weft.network.model import Link, Network, Region, both_ways
from weft.network.regions import RegionTree
from weft.network.routes import Graph, Routes

__all__ = [
    "BUILDERS",
    "Graph",
    "Link",
    "Network",
    "Region",
    "RegionTree",
    "Routes",
    "bcube",
    "both_ways",
    "built",
    "built_from_expression",
    "combined",
    "dgx1",
    "fat_tree",
    "full_mesh",
    "machines",
    "spine_leaf",
    "two_tier",
]
