"""Making and signing artifacts: private keys, the trust store, evidence, the frozen configuration and its audit."""
