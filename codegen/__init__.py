"""From a program of loops over buffers to compiled C; `build` is the door.

Knows buffers, loops, products, calls and C, and nothing of tensors, graphs or derivatives: it imports
nothing of gtensor outside this package.
"""
