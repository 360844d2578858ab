"""What runs for long: parts, their loops, and the crew that starts and stops them."""
