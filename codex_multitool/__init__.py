"""One executable that runs, judges and confines the commands of an agent."""

__version__ = "0.1.0"
