"""A network as Linux network namespaces with shaped links, and a command run as every worker in it."""

from weft.emulation.launch import emulate

__all__ = ["emulate"]
