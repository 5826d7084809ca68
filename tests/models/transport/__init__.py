"""The transport over real sockets, with servers that do what a test tells them."""
