"""`python -m stepwell.cli`, where the program itself is not in the PATH."""

from stepwell.cli import main

if __name__ == "__main__":
    main(prog_name="stepwell")
