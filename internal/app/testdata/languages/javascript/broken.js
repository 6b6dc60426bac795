console.log("hello"
