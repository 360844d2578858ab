"""The screens of the dashboard, below `/step-dispatcher`."""
