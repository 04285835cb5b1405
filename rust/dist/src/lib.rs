//! Processes that work together: rendezvous, transports, collectives. Moves bytes and knows no operator.
