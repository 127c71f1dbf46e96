"""``python -m ranktable``: the command, where its script is not on the path."""

from ranktable.cli import main

if __name__ == "__main__":
    main()
