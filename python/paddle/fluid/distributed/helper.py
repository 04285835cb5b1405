"""FileSystem and MPIHelper: where the files are, and which process of MPI this is."""

from __future__ import annotations

import socket

from paddle.fluid.incubate.fleet.base.role_maker import MPIRoleMaker

from . import ps_pb2 as pslib

__all__ = ["FileSystem", "MPIHelper"]


class FileSystem:
    """How servers reach a file system.

    Args:
        fs_type (str): not read. uri, user, passwd, hadoop_bin (str): where it is, and by whom and what it is asked.

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
    """Which process of mpirun this is (mpi4py, the extra `mpi`).

    Raises:
        ImportError: without mpi4py.
    """

    def __init__(self):
        self._role = MPIRoleMaker()

    def get_rank(self):
        """This process's number."""
        return self._role._get_rank()

    def get_size(self):
        """How many processes there are."""
        return self._role._get_size()

    def get_ip(self):
        """The address of this host."""
        return socket.gethostbyname(socket.gethostname())

    def get_hostname(self):
        """The name of this host."""
        return socket.gethostname()

    def finalize(self):
        """Ends MPI in this process."""
        self._role._finalize()
