"""SGLang's CPU kernels written in PyTorch: token slots, EAGLE trees, attention, cache rows, and the plugin."""
