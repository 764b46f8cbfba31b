from typing import Any

def __getattr__(name: str) -> Any: ...  # for editors, which look for a file of each package
