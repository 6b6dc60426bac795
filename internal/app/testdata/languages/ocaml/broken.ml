let x : int = "one"
