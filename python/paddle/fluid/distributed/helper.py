"""FileSystem and MPIHelper: descriptions of a file system, and of this process of MPI."""

from __future__ import annotations

import socket

from paddle.fluid.incubate.fleet.base.role_maker import MPIRoleMaker

from . import ps_pb2 as pslib

__all__ = ["FileSystem", "MPIHelper"]


class FileSystem:
    """The description of a file system for servers.

    Args:
        fs_type (str): not read. uri, user, passwd, hadoop_bin (str): its address, credentials and client.

    Raises:
        ValueError: without a user or a password.

    Examples:
        >>> from paddle.fluid.distributed.helper import FileSystem
        >>> FileSystem(uri="hdfs://x:1", user="me", passwd="secret").get_desc().user
        'me'
    """

    def __init__(self, fs_type="afs", uri="afs://xx", user=None, passwd=None, hadoop_bin=""):
        if user is None or passwd is None or hadoop_bin is None:
            raise ValueError("FileSystem: user, passwd and hadoop_bin are needed")
        self.fs_client = pslib.FsClientParameter()
        self.fs_client.uri, self.fs_client.hadoop_bin = uri, hadoop_bin
        self.fs_client.user, self.fs_client.passwd = user, passwd

    def get_desc(self):
        """The message FsClientParameter."""
        return self.fs_client


class MPIHelper:
    """This process of mpirun (mpi4py, the extra `mpi`).

    Raises:
        ImportError: without mpi4py.
    """

    def __init__(self):
        self._role = MPIRoleMaker()

    def get_rank(self):
        """The rank of this process."""
        return self._role._get_rank()

    def get_size(self):
        """The number of processes."""
        return self._role._get_size()

    def get_ip(self):
        """The address of this host."""
        return socket.gethostbyname(socket.gethostname())

    def get_hostname(self):
        """The name of this host."""
        return socket.gethostname()

    def finalize(self):
        """Finalizes MPI in this process."""
        self._role._finalize()
