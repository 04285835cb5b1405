"""Downpour's parameter servers: descriptions of tables as 2.0.2 makes them for PSLib, and Programs that serve them.

The servers of Baidu's PSLib are not public: the described tables are served by Programs of this package's servers.
"""
