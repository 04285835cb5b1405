"""fluid.proto: the messages of Program files as classes of Google's protobuf, an optional package."""
