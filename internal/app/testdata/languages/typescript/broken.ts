const x: number = "one"
