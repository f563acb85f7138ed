"""The collector: plans blocks, pools them, publishes; holds a block's A X in memory for a moment and no row ever."""
