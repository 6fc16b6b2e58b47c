SELECT n FROM range(1, $most + 1) AS r(n)
