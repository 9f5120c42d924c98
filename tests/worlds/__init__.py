"""Small cluster states with figures worked by hand, and how to read them."""
