"""Fleet: runs a job described by :class:`DownpourSGD`."""

from __future__ import annotations

from paddle._programs.scope import global_scope
from paddle.fluid.incubate.fleet.parameter_server.pslib import PSLib

__all__ = ["Fleet"]


class Fleet:
    """The servers and the trainers of Downpour's first job.

    Args:
        role_maker (RoleMakerBase, optional): the role of this process, of ``fluid.incubate.fleet.base.role_maker``.
            None: even ranks of MPI are servers, odd ones trainers.

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
            ValueError: for another value.
        """
        self._take(opt_info)
        self.instance_.run_server()

    def init_worker(self, opt_info):
        """Connects a trainer, after its startup Program has run: its Programs then pull and push, and servers have the
        first trainer's parameters.

        Args:
            opt_info (dict): ``program._fleet_opt``, as DownpourSGD.minimize leaves it.

        Raises:
            ValueError: for another value.
        """
        self._take(opt_info)
        self.instance_.init_worker()

    def init_pserver_model(self):
        """Sends the first trainer's current parameters to the servers."""
        self.instance_._give("init_pserver_model", None, None, dict)

    def save_pserver_model(self, save_path):
        """Makes the servers save all tables, as ``fleet.save_persistables`` of pslib.

        Args:
            save_path (str): a shared folder.
        """
        self.instance_.save_model(save_path)

    def stop(self):
        """This trainer is complete; servers end when all are."""
        self.instance_.stop_worker()
