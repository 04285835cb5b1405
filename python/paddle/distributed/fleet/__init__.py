"""paddle.distributed.fleet: so far the launcher (`launch`) and `cloud_utils`."""
