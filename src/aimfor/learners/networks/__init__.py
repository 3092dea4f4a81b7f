"""Networks of the learners, and the one loop that trains them."""
