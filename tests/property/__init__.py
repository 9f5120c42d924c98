"""What holds for every state and every order of changes."""
