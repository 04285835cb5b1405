"""Fleet: a job whose description :class:`DownpourSGD` has made, on the servers that are here."""

from __future__ import annotations

from paddle._programs.scope import global_scope
from paddle.fluid.incubate.fleet.parameter_server.pslib import PSLib

__all__ = ["Fleet"]


class Fleet:
    """The servers and the trainers of Downpour's first job.

    Args:
        role_maker (RoleMakerBase, optional): what this process is, of ``fluid.incubate.fleet.base.role_maker``.
            None: of every two ranks of MPI the first is a server, the second a trainer.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.distributed.fleet import Fleet
        >>> from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
        >>> job = Fleet(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
        >>> job.instance_.is_first_worker()
        True
    """

    def __init__(self, role_maker=None):
        self.instance_ = PSLib()
        self.instance_.init(role_maker)

    def _take(self, opt_info):
        if not isinstance(opt_info, dict) or "programs" not in opt_info:
            raise ValueError("Fleet takes the `_fleet_opt` of a Program that DownpourSGD.minimize has described")
        self.instance_._set_opt_info(opt_info)
        self.instance_._main_programs = opt_info["programs"]
        self.instance_._scopes = [global_scope()] * len(opt_info["programs"])

    def init_pserver(self, opt_info):
        """Serves the tables until all trainers have stopped.

        Args:
            opt_info (dict): ``program._fleet_opt``, as DownpourSGD.minimize leaves it.

        Raises:
            ValueError: for something else.
        """
        self._take(opt_info)
        self.instance_.run_server()

    def init_worker(self, opt_info):
        """Connects a trainer, once it has run the startup Program: its Programs pull and push from now on, and servers
        have the first trainer's parameters.

        Args:
            opt_info (dict): ``program._fleet_opt``, as DownpourSGD.minimize leaves it.

        Raises:
            ValueError: for something else.
        """
        self._take(opt_info)
        self.instance_.init_worker()

    def init_pserver_model(self):
        """Gives the servers the first trainer's parameters as they are now."""
        self.instance_._give("init_pserver_model", None, None, dict)

    def save_pserver_model(self, save_path):
        """Has the servers write all tables, as ``fleet.save_persistables`` of pslib.

        Args:
            save_path (str): a folder that all servers reach.
        """
        self.instance_.save_model(save_path)

    def stop(self):
        """This trainer is complete; servers end when all are."""
        self.instance_.stop_worker()
