"""The sets of pairs that the replay can play: how the tool servers of each are started, and its labels."""
import os

import policies
from hosts import python_command

HERE = os.path.dirname(os.path.abspath(__file__))


class DojoSet:
    """A suite of AgentDojo: one tool server, named after the suite."""

    def __init__(self, suite, options):
        self.suite, self.options = suite, options
        self.labels = policies.labels_of(suite)

    def servers(self, control_port):
        more = ("--wording", self.options.wording, "--results", self.options.results)
        return {self.suite: python_command(os.path.join(HERE, "dojo_server.py"), self.suite, control_port, *more)}


def dojo_set(suite, options):
    return DojoSet(suite, options)
