"""``python -m fairspan``."""

from fairspan.cli import main

if __name__ == "__main__":
    main()
